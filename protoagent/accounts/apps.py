from django.apps import AppConfig


class AccountsConfig(AppConfig):
    name = "protoagent.accounts"
    label = "accounts"
    verbose_name = "Access"
