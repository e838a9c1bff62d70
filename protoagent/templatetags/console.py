"""Presentation tags and filters of the console."""

from django import template
from django.templatetags.static import static
from django.utils.html import format_html
from django.utils.safestring import SafeString

register = template.Library()


@register.simple_tag
def icon(name: str, css_class: str = "") -> SafeString:
    """One symbol of the icon sprite; decoration only, so hidden from screen readers."""
    return format_html(
        '<svg class="icon {}" aria-hidden="true" focusable="false"><use href="{}#{}"/></svg>',
        css_class,
        static("img/icons.svg"),
        name,
    )


@register.simple_tag
def mark() -> SafeString:
    """The product's mark in the colour of the text around it."""
    return format_html(
        '<svg class="brand__mark" aria-hidden="true" focusable="false"><use href="{}#mark"/></svg>',
        static("img/icons.svg"),
    )
