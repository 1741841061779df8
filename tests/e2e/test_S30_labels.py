"""S30: labels out of range or no integers are LABEL-BAD with their key; never wrapped, never 0."""
import json

from harness import *

FORMS = ["7", "7\n", " 2 ", "+5", "-1", "0007", "2147483648", "9223372036854775807", "9223372036854775808", "3.0", "cat", "", "1 2 3",
         "\ufeff8", "9", "10"]


class Labels(Case):
    def serve(self, **field):
        data = self.folder / "data"
        data.mkdir()
        picture = jpeg(32, 32, 1)
        write_tar(data / "a.tar", [m for i, text in enumerate(FORMS) for m in ((f"k{i:02d}.jpg", picture), (f"k{i:02d}.cls", text.encode()))])
        self.config({"source": str(data / "a.tar"), "batch": len(FORMS), "transform": "eval",
                     "fields": [{"name": "image", "from": "jpg", "kind": "image"}, {"name": "label", "from": "cls", "kind": "int", **field}]})
        self.start_daemon()
        trainer = self.trainer()
        trainer.attach()
        batch = trainer.next()
        bad = {entry["key"] for entry in json.loads(self.ctl("bad", "feed", "--json").stdout)["bad"] if entry["class"] == "LABEL-BAD"}
        return [label if valid else None for label, valid in zip(batch["label"], batch["flags"])], bad

    def test_any_integer(self):
        labels, bad = self.serve()
        self.assertEqual(labels, [7, 7, 2, 5, -1, 7, 2147483648, 9223372036854775807, None, None, None, None, None, None, 9, 10])
        self.assertEqual(bad, {f"k{i:02d}" for i, label in enumerate(labels) if label is None})

    def test_ten_classes(self):
        labels, bad = self.serve(classes=10)
        self.assertEqual(labels, [7, 7, 2, 5, None, 7] + [None] * 8 + [9, None])
        self.assertEqual(len(bad), 10)


main()
