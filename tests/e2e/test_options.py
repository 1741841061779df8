"""Options of the programs: versions, what does not go together, what --check-config prints."""
import subprocess

from harness import *


class Options(Case):
    def run_program(self, program, *arguments):
        return subprocess.run([BUILD / "daemon" / program, *map(str, arguments)], capture_output=True, text=True, timeout=60)

    def test_versions(self):
        for program in ("dataloadd", "dataload-pack"):
            run = self.run_program(program, "--version")
            self.assertEqual(run.returncode, 0, run.stderr)
            self.assertRegex(run.stdout, rf"^{program} \d+\.\d+\.\d+\n$")

    def test_world_belongs_to_the_check(self):
        run = self.run_program("dataloadd", "--world", 8, "--config", self.folder / "none.yaml")
        self.assertEqual(run.returncode, 64)
        self.assertIn("--check-config", run.stderr)

    def test_configuration_that_is_missing(self):
        path = self.folder / "none.yaml"
        run = self.run_program("dataloadd", "--check-config", "--config", path)
        self.assertEqual(run.returncode, 78)
        self.assertIn(f"{path}: No such file or directory; --config FILE", run.stderr)

    def check(self, **feed):
        data = self.folder / "data"
        if not data.exists():
            write_shards(data, shards=4, records=25)
        path = self.config({"source": str(data / "*.tar"), **feed}, cache={"path": str(self.folder / "cache")})
        run = self.run_program("dataloadd", "--check-config", "--world", 8, "--config", path)
        self.assertEqual(run.returncode, 0, run.stdout + run.stderr)
        return run.stdout

    def test_check_says_which_batch_it_reckons_with(self):
        self.assertIn("reckoned with 256", self.check())
        self.assertNotIn("reckoned", self.check(batch=2))

    def test_check_tells_of_fast_pixels(self):
        self.assertIn("pixels: fast", self.check(pixels="fast"))
        self.assertNotIn("pixels:", self.check())

    def test_check_advises_lanes_only_where_they_are_used(self):
        self.assertIn("lanes 80 avoids it; batch 4 avoids it", self.check(batch=5, lanes=64, shuffle=10))
        self.assertNotIn("lanes", self.check(batch=5, lanes=64, shuffle=0))


main()
