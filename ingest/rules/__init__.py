"""The first rules of the inbox: what the lake knows of instances, of people's two addresses, of chats."""
