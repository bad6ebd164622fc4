"""The clients of Azure's services that engines and `fairway data` share."""
