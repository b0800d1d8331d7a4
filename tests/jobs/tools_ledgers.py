"""Money in lists: bank rows, invoices, payments, quotes."""

from __future__ import annotations

from dataclasses import dataclass, field

from jobs.world import Refused, World, acts, reads

from foreplan import ask


@dataclass(frozen=True)
class BankRow:
    """A line of a bank's CSV file; `amount` is text as it stands there: `1,250.00`."""

    id: str
    day: str
    amount: str
    text: str = ""


@dataclass(frozen=True)
class InvoiceRow:
    """A line of the invoices' CSV file."""

    number: str
    due: str
    amount: str
    customer: str = ""


@dataclass(frozen=True)
class Payment:
    """A payment of a customer."""

    customer: str
    amount: float
    day: str


@dataclass(frozen=True)
class Customer:
    """A customer; some have no mail address."""

    name: str
    mail: str | None


@dataclass(frozen=True)
class OpenInvoice:
    """An invoice that is not paid in full."""

    number: str
    due: str
    open: float


@dataclass(frozen=True)
class Quote:
    """What a supplier would take for something."""

    supplier: str
    price: float
    days: int


@dataclass(frozen=True)
class Order:
    """Something that was ordered."""

    number: str


@dataclass
class Ledger(World):
    """Books of a small firm. A supplier without a price does not answer; one invoice in `locked` takes no money."""

    bank: list[BankRow] = field(default_factory=list)
    invoices: list[InvoiceRow] = field(default_factory=list)
    payments: list[Payment] = field(default_factory=list)
    customers: list[Customer] = field(default_factory=list)
    unpaid: list[OpenInvoice] = field(default_factory=list)
    locked: str = ""
    quotes: dict[str, tuple[float, int]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        super().__init__()
        self.built_in = [ask]

    @reads
    async def read_bank(self, path: str) -> list[BankRow]:
        """The rows of a bank's CSV file."""
        return self.bank

    @reads
    async def read_invoices(self, path: str) -> list[InvoiceRow]:
        """The rows of a CSV file of invoices."""
        return self.invoices

    @acts
    async def mark_paid(self, invoice: str, payment: str) -> None:
        """An invoice was paid by this bank row."""

    @reads
    async def list_payments(self, month: str) -> list[Payment]:
        """The payments of one month."""
        return [p for p in self.payments if p.day.startswith(month)]

    @reads
    async def list_customers(self) -> list[Customer]:
        """All customers."""
        return self.customers

    @acts
    async def send_email(self, to: str, subject: str, body: str) -> None:
        """Send a mail."""

    @reads
    async def open_invoices(self, customer: str) -> list[OpenInvoice]:
        """What a customer still owes, in no order."""
        return self.unpaid

    @acts
    async def apply_payment(self, invoice: str, amount: float) -> None:
        """Book a part of a payment on an invoice."""
        if invoice == self.locked:
            raise Refused(f"{invoice} is locked", code="locked")

    @acts
    async def book_credit(self, customer: str, amount: float) -> None:
        """Keep what is left of a payment for a customer."""

    @reads
    async def get_quote(self, supplier: str, thing: str) -> Quote:
        """Ask a supplier for a price."""
        if supplier not in self.quotes:
            raise Refused(f"{supplier} makes no offer", code="no_offer")
        price, days = self.quotes[supplier]
        return Quote(supplier, price, days)

    @acts
    async def place_order(self, supplier: str, thing: str, price: float) -> Order:
        """Order something."""
        return Order(f"order at {supplier}")
