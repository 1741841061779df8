"""The worked example of docs/order.md says what its model says."""
from harness import *

sys.path.insert(0, str(SOURCE / "tests/support"))
from order_model import batches, cut_runs, order, sequence  # noqa: E402

SIZES = [[10, 200, 30], [], [1, 2, 3, 400, 5], [7, 7, 7, 7]]


class Page(unittest.TestCase):
    def setUp(self):
        self.text = (SOURCE / "docs/order.md").read_text(encoding="utf-8").split("## Worked example")[1]
        self.number = {place: i for i, place in enumerate((s, k) for s, sizes in enumerate(SIZES) for k in range(len(sizes)))}
        self.orders = [self.numbers(order(SIZES, 1, epoch, 8, 4)) for epoch in (0, 1)]

    def numbers(self, places):
        return [self.number[place] for place in places]

    def says(self, text):
        self.assertIn(text, self.text)

    def cells(self, world, batch, start=0):
        """Records of each step: ranks apart by commas, or by "and" where a rank has more rows."""
        words = []
        for rows in batches(12, 4, world, batch, start, "wrap"):
            ranks = [" ".join(f"{self.orders[0][i % 12]}{' (invalid)' * (i >= 12)}" for i in rank) for rank in rows]
            words.append((", " if batch == 1 else " and ").join(ranks))
        return words

    def test_order(self):
        words = lambda numbers: " ".join(map(str, numbers))
        runs = cut_runs(SIZES, 4)
        self.assertEqual([[len(run) for run in runs], len(runs)], [[1] * 12, 12])
        s = self.numbers(sequence(SIZES, 1, 0, 4))
        self.says(f"S = {' | '.join(words(s[at:at + 3]) for at in range(0, 12, 3))} ")
        self.says(f"**{words(self.orders[0])}**")
        self.says(f"Epoch 1 has the order {words(self.orders[1])}.")

    def test_batches(self):
        for world, batch in ((2, 2), (4, 1), (1, 4)):
            self.says(f"| {world} trainers x {batch} | {' | '.join(self.cells(world, batch))} |".replace("1 trainers", "1 trainer"))

    def test_resumed(self):
        self.says(f"| 2 trainers x 2, as in an unbroken run | {' | '.join(self.cells(2, 2, 4))} | | epoch 1 |")
        cells = self.cells(2, 1, 4)
        self.says(f"| 2 trainers x 1 | {' | '.join(cells[:3])} | step 3: {cells[3]}; epoch 1 |")
        self.says(f"| 3 trainers x 1, `tail: wrap` | {' | '.join(self.cells(3, 1, 4))} | epoch 1 |")

    def test_tails(self):
        for tail, lines in (("wrap", 4), ("partial", 2)):
            row, = (line for line in self.text.splitlines() if line.startswith(f"| {tail} |"))
            for rank, cell in enumerate(row.split("|")[2:4]):
                positions = batches(12, 4, 2, 4, 0, tail)[1][rank]
                said = [int(word.strip(",:;")) for word in cell.replace("(invalid)", "").split() if word.strip(",:;").isdigit()]
                self.assertEqual(said, positions + [self.orders[0][i % 12] for i in positions])
                self.assertEqual((len(positions), cell.count("(invalid)")), (lines, sum(i >= 12 for i in positions)))
        self.assertEqual(len(batches(12, 4, 2, 4, 0, "drop")), 1)


main()
