package distros

// amazon returns the Amazon Linux releases. Amazon Linux 2 has kernel 4.14, built by gcc 7.3. In
// repositories that are switched on one by one it also has 5.4, built by the same gcc, and 5.10 and
// 5.15, built by gcc 10 ("gcc10-gcc (GCC) 10.5.0"), whose programs have names that no build looks
// for. Amazon Linux 2023 has 6.1, and 6.12 and 6.18 in packages with the series in their names. Its
// repositories have one state for each release of the system, and one that is always the newest and
// has all kernels.
func amazon() []Distro {
	return []Distro{
		el{rpm: rpm{
			family: "amzn", version: "2", compilers: []string{"gcc", "gcc10"}, elf: elfDevel,
			links: map[string]string{"usr/bin/gcc-10": "gcc10-gcc"},
		}, versions: []string{"2"}, singlePackage: true, extraSeries: []string{"5.4", "5.10", "5.15"}},
		el{
			rpm: rpm{
				family:    "amzn",
				version:   "2023",
				compilers: []string{"gcc"},
				elf:       elfDevel,
			},
			versions: []string{"latest"},
			series:   "6.1",
		},
	}
}
