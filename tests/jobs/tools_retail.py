"""A shop's desk for orders, returns and addresses, in the shape of tau-bench's retail domain."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Literal

from jobs.world import Refused, World, acts, reads, writes


@dataclass(frozen=True)
class Address:
    """Where someone lives or an order goes."""

    address1: str
    address2: str
    city: str
    country: str
    state: str
    zip: str


@dataclass(frozen=True)
class Name:
    """Who someone is."""

    first_name: str
    last_name: str


@dataclass(frozen=True)
class Method:
    """A way to pay; a gift card has a balance."""

    source: Literal["credit_card", "paypal", "gift_card"]
    id: str
    balance: float | None = None


@dataclass(frozen=True)
class User:
    """A customer."""

    name: Name
    address: Address
    email: str
    payment_methods: dict[str, Method]
    orders: list[str]


@dataclass(frozen=True)
class Item:
    """One thing that was ordered."""

    name: str
    product_id: str
    item_id: str
    price: float
    options: dict[str, str]


@dataclass(frozen=True)
class Payment:
    """Money that went either way."""

    transaction_type: Literal["payment", "refund"]
    amount: float
    payment_method_id: str


@dataclass(frozen=True)
class Order:
    """An order, with what was paid for it."""

    order_id: str
    user_id: str
    address: Address
    items: list[Item]
    status: str
    payment_history: list[Payment]
    return_payment_method_id: str | None = None


@dataclass(frozen=True)
class Variant:
    """One kind of a product."""

    item_id: str
    options: dict[str, str]
    available: bool
    price: float


@dataclass(frozen=True)
class Product:
    """A product with its kinds, by item id."""

    name: str
    product_id: str
    variants: dict[str, Variant]


HOME = Address("Elm Street 1", "", "Denver", "USA", "CO", "80280")


def variant(item: str, price: float, available: bool = True, **options: str) -> Variant:
    """A kind of a product; `_` in the name of an option is a space."""
    return Variant(item, {k.replace("_", " "): v for k, v in options.items()}, available, price)


@dataclass
class Shop(World):
    """Customers, orders and products. A product is named like its items; its id is the name in small letters."""

    customers: dict[str, User] = field(default_factory=dict)
    orders: dict[str, Order] = field(default_factory=dict)
    products: dict[str, Product] = field(default_factory=dict)

    def __post_init__(self) -> None:
        super().__init__()

    def stock(self, name: str, *variants: Variant) -> Shop:
        """Put a product on the shelf."""
        self.products[name.lower()] = Product(name, name.lower(), {v.item_id: v for v in variants})
        return self

    def sell(self, order_id: str, status: str, *items: str, paid_with: str, user: str = "ann") -> Shop:
        """An order of these items, by item id."""
        found = [self._item(item) for item in items]
        paid = Payment("payment", round(sum(i.price for i in found), 2), paid_with)
        self.orders[order_id] = Order(order_id, user, HOME, found, status, [paid])
        return self

    def _item(self, item_id: str) -> Item:
        for product in self.products.values():
            if item_id in product.variants:
                kind = product.variants[item_id]
                return Item(product.name, product.product_id, item_id, kind.price, kind.options)
        raise Refused(f"no item {item_id!r}", code="not_found")

    def _order(self, order_id: str, status: str) -> Order:
        order = self.orders.get(order_id)
        if order is None:
            raise Refused("order not found", code="not_found")
        if order.status != status:
            raise Refused(f"non-{status} order cannot be changed so", code="wrong_status")
        return order

    def _settled(self, order: Order) -> Order:
        self.orders[order.order_id] = order
        return order

    @reads
    async def find_user_id_by_email(self, email: str) -> str:
        """Whose mail address this is."""
        for id_, user in self.customers.items():
            if user.email == email:
                return id_
        raise Refused("user not found", code="not_found")

    @reads
    async def find_user_id_by_name_zip(self, first_name: str, last_name: str, zip: str) -> str:
        """Who lives there."""
        for id_, user in self.customers.items():
            if (user.name, user.address.zip) == (Name(first_name, last_name), zip):
                return id_
        raise Refused("user not found", code="not_found")

    @reads
    async def get_user_details(self, user_id: str) -> User:
        """A customer."""
        return self.customers[user_id]

    @reads
    async def get_order_details(self, order_id: str) -> Order:
        """An order."""
        if order_id not in self.orders:
            raise Refused("order not found", code="not_found")
        return self.orders[order_id]

    @reads
    async def list_all_product_types(self) -> dict[str, str]:
        """The id of each product, by name."""
        return {p.name: p.product_id for p in self.products.values()}

    @reads
    async def get_product_details(self, product_id: str) -> Product:
        """A product with its kinds."""
        if product_id not in self.products:
            raise Refused("product not found", code="not_found")
        return self.products[product_id]

    @acts
    async def exchange_delivered_order_items(
        self, order_id: str, item_ids: list[str], new_item_ids: list[str], payment_method_id: str
    ) -> Order:
        """Ask for an exchange of items that were delivered."""
        order = self._order(order_id, "delivered")
        return self._settled(replace(order, status="exchange requested"))

    @acts
    async def return_delivered_order_items(
        self, order_id: str, item_ids: list[str], payment_method_id: str
    ) -> Order:
        """Ask to give items back; the money goes where it came from, or on a gift card."""
        order = self._order(order_id, "delivered")
        if (
            payment_method_id != order.payment_history[0].payment_method_id
            and "gift" not in payment_method_id
        ):
            raise Refused("payment method should be either the original payment method or a gift card")
        status = "return requested"
        return self._settled(replace(order, status=status, return_payment_method_id=payment_method_id))

    @acts
    async def modify_pending_order_items(
        self, order_id: str, item_ids: list[str], new_item_ids: list[str], payment_method_id: str
    ) -> Order:
        """Change items of an order that is pending; possible once."""
        order = self._order(order_id, "pending")
        swap = dict(zip(item_ids, new_item_ids, strict=True))
        items = [self._item(swap.get(i.item_id, i.item_id)) for i in order.items]
        return self._settled(replace(order, items=items, status="pending (item modified)"))

    @acts
    async def cancel_pending_order(
        self, order_id: str, reason: Literal["no longer needed", "ordered by mistake"]
    ) -> Order:
        """Cancel an order that is pending."""
        return self._settled(replace(self._order(order_id, "pending"), status="cancelled"))

    @writes
    async def modify_pending_order_address(
        self, order_id: str, address1: str, address2: str, city: str, state: str, country: str, zip: str
    ) -> Order:
        """Send an order that is pending elsewhere."""
        address = Address(address1, address2, city, country, state, zip)
        return self._settled(replace(self._order(order_id, "pending"), address=address))

    @writes
    async def modify_user_address(
        self, user_id: str, address1: str, address2: str, city: str, state: str, country: str, zip: str
    ) -> User:
        """A customer has moved."""
        address = Address(address1, address2, city, country, state, zip)
        self.customers[user_id] = replace(self.customers[user_id], address=address)
        return self.customers[user_id]


def customer(*orders: str, methods: list[Method], email: str = "ann@x.org") -> dict[str, User]:
    """Ann Lee, whose id is `ann`."""
    return {"ann": User(Name("Ann", "Lee"), HOME, email, {m.id: m for m in methods}, list(orders))}
