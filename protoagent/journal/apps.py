from django.apps import AppConfig


class JournalConfig(AppConfig):
    name = "protoagent.journal"
    label = "journal"
    verbose_name = "Journal"
