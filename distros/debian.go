package distros

// debian returns Debian's releases. Their header packages name the compiler of the kernel
// (linux-compiler-gcc-12-x86 and .kernelvariables). There is one per release; kernels of backports
// use the same.
func debian() []Distro {
	return []Distro{
		// 5.10, containerd 1.4.
		deb{
			family:     "debian",
			version:    "11",
			compilers:  []string{"gcc-10"},
			elf:        "libelf1",
			elfHeaders: true,
			oldRuntime: true,
		},
		// 6.1
		deb{family: "debian", version: "12", compilers: []string{"gcc-12"}, elf: "libelf1"},
		// 6.12
		deb{family: "debian", version: "13", compilers: []string{"gcc-14"}, elf: "libelf1t64"},
	}
}
