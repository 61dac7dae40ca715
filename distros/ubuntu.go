package distros

// ubuntu returns Ubuntu's long-term releases. Beside the kernel of the release they have hardware
// enablement kernels from later releases; CONFIG_CC_VERSION_TEXT in their headers names the
// compiler. The comments have the first and the last kernel, and Docker where Kubernetes ran on it.
func ubuntu() []Distro {
	return []Distro{
		// 4.4 to 4.15, Docker 18.09; 4.15 to 5.4, Docker 20.10.
		deb{
			family:     "ubuntu",
			version:    "16.04",
			compilers:  []string{"gcc-5"},
			elf:        "libelf1",
			elfHeaders: true,
			oldRuntime: true,
		},
		deb{
			family:     "ubuntu",
			version:    "18.04",
			compilers:  []string{"gcc-7"},
			elf:        "libelf1",
			elfHeaders: true,
			oldRuntime: true,
		},
		// 5.4 to 5.15
		deb{
			family:     "ubuntu",
			version:    "20.04",
			compilers:  []string{"gcc-9"},
			elf:        "libelf1",
			elfHeaders: true,
		},
		// gcc-11 built 5.15 to 6.2, gcc-12 built 6.5 and 6.8; their Makefile names it.
		deb{
			family:     "ubuntu",
			version:    "22.04",
			compilers:  []string{"gcc-11", "gcc-12"},
			elf:        "libelf1",
			elfHeaders: true,
		},
		// 6.8 to 6.17
		deb{family: "ubuntu", version: "24.04", compilers: []string{"gcc-13"}, elf: "libelf1t64"},
		// 7.0 on
		deb{family: "ubuntu", version: "26.04", compilers: []string{"gcc-15"}, elf: "libelf1t64"},
	}
}
