"""The layouts that training uses, six of each kind."""

from burnish.domains.document_content import Layout

LAYOUTS = (
    Layout(
        name="letterhead",
        kind="invoice",
        text="""
{seller}
{city}, Tel. {phone}

INVOICE {number}
Date: {day}
Bill to: {buyer}
Subtotal: {net}
Tax {rate}%: {tax}
Total: {total}
""",
    ),
    Layout(
        name="labels",
        kind="invoice",
        text="""
Invoice no.: {number}
Customer: {buyer}
Vendor: {seller}
Order ref.: {reference}
Invoice date: {day}
Net: {net}
Amount due: {total}
Page 1 of {page}
""",
    ),
    Layout(
        name="mail",
        kind="invoice",
        text="""
Dear {buyer},
please find our invoice {number} of {day} for {count} {item}. The amount of {total} is due within 30 days.
Questions? Call {phone}.
Kind regards, {seller}
""",
    ),
    Layout(
        name="table",
        kind="invoice",
        text="""
INVOICE
| From | {seller} |
| To | {buyer} |
| Number | {number} |
| Issued | {day} |
| Net | {net} |
| VAT | {tax} |
| Total | {total} |
""",
    ),
    Layout(
        name="rechnung",
        kind="invoice",
        language="de",
        text="""
{seller}, {city}
Rechnung Nr. {number}
Datum: {day}
Kunde: {buyer}
Netto: {net}
MwSt. {rate}%: {tax}
Gesamtbetrag: {total}
""",
    ),
    Layout(
        name="total_first",
        kind="invoice",
        text="""
Amount due: {total}
Invoice {number}, issued {day}, due {later}
Seller: {seller} (tax id {tax_id})
Buyer: {buyer}
{count} {item}, net {net}
""",
    ),
    Layout(
        name="form",
        kind="order",
        text="""
PURCHASE ORDER {number}
Buyer: {buyer}
Supplier: {seller}
Order date: {earlier}
Delivery date: {day}
Subtotal: {net}
Total: {total}
""",
    ),
    Layout(
        name="mail",
        kind="order",
        text="""
To {seller}:
we order {count} {item} under order number {number}. Please deliver by {day}. Price including tax: {total}.
{buyer}, {city}, phone {phone}
""",
    ),
    Layout(
        name="table",
        kind="order",
        text="""
Order | {number}
Ordered on | {earlier}
Deliver on | {day}
Supplier | {seller}
Ship to | {buyer}
Tax {rate}% | {tax}
Order total | {total}
""",
    ),
    Layout(
        name="bestellung",
        kind="order",
        language="de",
        text="""
Bestellung {number}
Lieferant: {seller}
Besteller: {buyer}
Menge: {count}
Lieferdatum: {day}
Netto: {net}
Summe: {total}
""",
    ),
    Layout(
        name="header",
        kind="order",
        text="""
{buyer}
Tel. {phone}
P.O. no. {number}   Ref. {reference}
Vendor: {seller}
{count} {item}: {net}
Tax: {tax}
Total: {total}
Required by: {day}
""",
    ),
    Layout(
        name="confirmation",
        kind="order",
        text="""
Order confirmation from {seller}
Your order: {number}
Customer: {buyer}
Total price: {total} (tax included: {tax})
Delivery: {day}
Page 1 of {page}
""",
    ),
    Layout(
        name="title",
        kind="contract",
        text="""
SERVICE CONTRACT no. {number}
Client: {buyer}
Provider: {seller}
Signed: {earlier}
Start: {day}
Term: {months} months
Fee: {total}
""",
    ),
    Layout(
        name="between",
        kind="contract",
        text="""
AGREEMENT between {buyer} (the Client) and {seller} (the Provider) for {service} services.
It starts on {day} and runs for {months} months. The fee is {total}. Notice: {count} days.
""",
    ),
    Layout(
        name="table",
        kind="contract",
        text="""
Contract | {reference}
Provider | {seller}
Client | {buyer}
Service | {service}
Start date | {day}
Deposit | {tax}
Fee | {total}
""",
    ),
    Layout(
        name="vertrag",
        kind="contract",
        language="de",
        text="""
Vertrag Nr. {reference}
Auftraggeber: {buyer}
Auftragnehmer: {seller}
Beginn: {day}
Laufzeit: {months} Monate
Honorar: {total}
""",
    ),
    Layout(
        name="provider_first",
        kind="contract",
        text="""
{seller} (the Provider) agrees to deliver {service} to {buyer} (the Client).
Contract date: {earlier}
Effective from: {day}
Fee: {total}
Deposit: {tax}
""",
    ),
    Layout(
        name="summary",
        kind="contract",
        text="""
Contract summary, page 1 of {page}
Total fee {total}, of which tax {tax}
Begins {day}, ends after {months} months
Customer (client): {buyer}
Service provider: {seller}, tel. {phone}
""",
    ),
)
