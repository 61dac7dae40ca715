package distros

// fedora lists the releases that get updates. Each goes from one series of the kernel to the next as they come out.
func fedora() []Distro {
	var all []Distro
	for _, version := range []string{"43", "44", "45"} { // gcc 15, 16, 16
		all = append(all, el{rpm: rpm{family: "fedora", version: version, compilers: []string{"gcc"}, elf: elfDevel}, versions: []string{version}})
	}
	return all
}
