"""The layouts that training never sees, five of each kind: other labels, other order, other breaks."""

from burnish.domains.document_content import Layout

LAYOUTS = (
    Layout(
        name="signed_below",
        kind="invoice",
        text="""
TAX INVOICE
Ref. {reference}
Our invoice number: {number}
Client: {buyer}
Goods {net}, tax {tax}
Please pay {total}
Dated {day}
Issued by {seller}, {city}
""",
    ),
    Layout(
        name="dots",
        kind="invoice",
        text="""
{seller} ... Tax ID {tax_id}
Invoice # ..... {number}
Date .......... {day}
Due ........... {later}
Sold to ....... {buyer}
GRAND TOTAL ... {total}
""",
    ),
    Layout(
        name="note",
        kind="invoice",
        text="""
On {day} {seller} billed {buyer} for {count} {item} (invoice {number}). Net {net}, total {total}. Phone: {phone}.
""",
    ),
    Layout(
        name="faktura",
        kind="invoice",
        language="de",
        text="""
Rechnungsnummer {number}
Rechnungsdatum {day}
An: {buyer}
Von: {seller}
Zwischensumme {net}
Zu zahlen: {total}
Telefon {phone}
""",
    ),
    Layout(
        name="semicolons",
        kind="invoice",
        text="""
doc;invoice
no;{number}
seller;{seller}
buyer;{buyer}
date;{day}
net;{net}
gross;{total}
page;{page}
""",
    ),
    Layout(
        name="supplier_first",
        kind="order",
        text="""
Supplier: {seller}, {city}
From: {buyer}, tel. {phone}
Purchase order: {number}
Items: {count} {item}
Net value: {net}
Order value: {total}
Delivery due: {day}
""",
    ),
    Layout(
        name="request",
        kind="order",
        text="""
{buyer} hereby orders from {seller}: {count} {item}, total cost {total}, to arrive on {day}.
Order no. {number}, placed {earlier}.
""",
    ),
    Layout(
        name="arrows",
        kind="order",
        text="""
PO > {number}
Ref > {reference}
Sold by > {seller}
Bought by > {buyer}
Net > {net}
Total > {total}
Deliver by > {day}
""",
    ),
    Layout(
        name="auftrag",
        kind="order",
        language="de",
        text="""
Auftrag Nr. {number} vom {earlier}
An den Lieferanten {seller}
Liefertermin: {day}
MwSt.: {tax}
Gesamtpreis: {total}
Kunde: {buyer}
""",
    ),
    Layout(
        name="slip",
        kind="order",
        text="""
ORDER SLIP {number}
Total {total} / tax {tax} / page {page}
Delivery {day} / ordered {earlier}
Supplier {seller}
Buyer {buyer}
""",
    ),
    Layout(
        name="clauses",
        kind="contract",
        text="""
CONTRACT {reference}
1. Provider is {seller}.
2. Client is {buyer}.
3. The contract starts on {day} for {months} months.
4. The fee is {total}; the deposit is {tax}.
""",
    ),
    Layout(
        name="letter",
        kind="contract",
        text="""
Dear {buyer}, as your provider of {service} services we, {seller}, will begin on {day}.
You pay a fee of {total} for {months} months. Our number: {phone}.
""",
    ),
    Layout(
        name="brackets",
        kind="contract",
        text="""
[Agreement] {number}
[Date signed] {earlier}
[Start] {day}
[Fee, total] {total}
[Tax] {tax}
[Client] {buyer}
[Provider] {seller}
""",
    ),
    Layout(
        name="dienstvertrag",
        kind="contract",
        language="de",
        text="""
Dienstvertrag zwischen {buyer} (Kunde) und {seller} (Anbieter)
Vertragsbeginn: {day}
Unterschrift: {earlier}
Anzahlung: {tax}
Gebühr: {total}
""",
    ),
    Layout(
        name="parties",
        kind="contract",
        text="""
PARTIES
Provider: {seller} ({city})
Client: {buyer}
TERMS
{service}, {months} months, from {day}
Fee {total}, net {net}
""",
    ),
)
