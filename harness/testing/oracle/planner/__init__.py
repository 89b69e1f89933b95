"""Plans reads from the specifications alone, with the plainest code that does so; nothing is skipped.

`plan` is the door, `iceberg` and `delta` plan a format. Of the others each is one document of a format, or one part.
Their functions raise as `plan.plan_unpruned` does, and errors name the rule.
"""
