from django.apps import AppConfig


class UploadsConfig(AppConfig):
    name = "protoagent.uploads"
    label = "uploads"
    verbose_name = "Uploads"
