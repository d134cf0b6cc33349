"""The HTTP layer: converts requests into ``InboxService`` calls, and their results into JSON or problem documents."""
