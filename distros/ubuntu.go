package distros

// ubuntu lists Ubuntu's long-term releases. Beside the kernel of the release there are hardware enablement kernels, of
// later releases; CONFIG_CC_VERSION_TEXT in their headers says what built them. The comments name the first and the last.
func ubuntu() []Distro {
	return []Distro{
		deb{family: "ubuntu", version: "16.04", compilers: []string{"gcc-5"}, elf: "libelf1", elfHeaders: true}, // 4.4 to 4.15
		deb{family: "ubuntu", version: "18.04", compilers: []string{"gcc-7"}, elf: "libelf1", elfHeaders: true}, // 4.15 to 5.4
		deb{family: "ubuntu", version: "20.04", compilers: []string{"gcc-9"}, elf: "libelf1", elfHeaders: true}, // 5.4 to 5.15
		// 5.15 to 6.2 were built with gcc-11, 6.5 and 6.8 with gcc-12, which their Makefile names.
		deb{family: "ubuntu", version: "22.04", compilers: []string{"gcc-11", "gcc-12"}, elf: "libelf1", elfHeaders: true},
		deb{family: "ubuntu", version: "24.04", compilers: []string{"gcc-13"}, elf: "libelf1t64"}, // 6.8 to 6.17
		deb{family: "ubuntu", version: "26.04", compilers: []string{"gcc-15"}, elf: "libelf1t64"}, // 7.0 on
	}
}
