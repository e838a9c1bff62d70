from django.apps import AppConfig


class AccountsConfig(AppConfig):
    name = "protoagent.accounts"
    label = "accounts"
    verbose_name = "Access"

    def ready(self) -> None:
        from protoagent.accounts import checks  # noqa: F401 — importing registers them
