package distros

// fedora returns the releases that get updates. Each moves to the next kernel series when that
// comes out.
func fedora() []Distro {
	var all []Distro
	for _, version := range []string{"43", "44", "45"} { // gcc 15, 16, 16
		all = append(
			all,
			el{
				rpm: rpm{
					family:    "fedora",
					version:   version,
					compilers: []string{"gcc"},
					elf:       elfDevel,
				},
				versions: []string{version},
			},
		)
	}
	return all
}
