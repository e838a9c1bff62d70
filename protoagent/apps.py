from django.apps import AppConfig


class ProtoagentConfig(AppConfig):
    name = "protoagent"
    verbose_name = "protoAgent console"

    def ready(self) -> None:
        """System checks are registered, and the registries that lower floors read are filled."""
        from protoagent import bootstrap, checks  # noqa: F401 — importing registers the checks

        bootstrap.wire()
