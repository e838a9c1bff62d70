"""Files that somebody attached to a message: what they are, and apart from it their bytes."""

from __future__ import annotations

from datetime import datetime, timedelta

from django.db import models
from django.db.models import Q

from protoagent.core import clock
from protoagent.core.ids import new_id
from protoagent.journal.models import ChatSession

KEPT_UNSENT = timedelta(hours=24)
MAX_NAME_CHARS = 120
MAX_ALT_CHARS = 500


def new_attachment_id() -> str:
    """The default key of an attachment."""
    return new_id("f")


class AttachmentKind(models.TextChoices):
    TEXT = "text", "text"
    IMAGE = "image", "image"


class AttachmentQuerySet(models.QuerySet["Attachment"]):
    def usable(self) -> AttachmentQuerySet:
        """Sent, or young enough to be sent."""
        return self.filter(Q(session__isnull=False) | Q(created_at__gte=_oldest()))

    def expired(self) -> AttachmentQuerySet:
        """Never sent, and a day old."""
        return self.filter(session=None, created_at__lt=_oldest())


def _oldest() -> datetime:
    return clock.now() - KEPT_UNSENT


class Attachment(models.Model):
    """A file of a message, or of a draft as long as it has no session.

    `size` counts the bytes that are kept: a text is kept in UTF-8 with its secrets masked,
    and has `chars` characters. `alt` says what an image shows.
    """

    id = models.CharField(
        primary_key=True, max_length=24, default=new_attachment_id, editable=False
    )
    session = models.ForeignKey(
        ChatSession, on_delete=models.CASCADE, related_name="attachments", null=True, blank=True
    )
    owner = models.CharField(max_length=200)
    name = models.CharField(max_length=MAX_NAME_CHARS)
    content_type = models.CharField(max_length=40)
    kind = models.CharField(max_length=5, choices=AttachmentKind.choices)
    size = models.PositiveIntegerField()
    chars = models.PositiveIntegerField(default=0)
    alt = models.CharField(max_length=MAX_ALT_CHARS, blank=True)
    created_at = models.DateTimeField(default=clock.now, editable=False)

    objects = AttachmentQuerySet.as_manager()

    class Meta:
        constraints = [
            models.CheckConstraint(
                condition=Q(kind__in=AttachmentKind.values), name="uploads_attachment_kind"
            ),
        ]
        indexes = [
            models.Index(
                fields=["created_at"], condition=Q(session=None), name="uploads_attachment_unsent"
            ),
        ]

    def __str__(self) -> str:
        return self.name


class AttachmentContent(models.Model):
    """The bytes of one attachment, in a table of their own so that no list reads them."""

    attachment = models.OneToOneField(
        Attachment, on_delete=models.CASCADE, primary_key=True, related_name="content"
    )
    body = models.BinaryField()

    def __str__(self) -> str:
        return str(self.attachment_id)
