package imagetest

import "fmt"

const azureFiles = `
	etc/os-release = ID=azurelinux\nVERSION_ID="3.0"
	etc/dnf/dnf.conf = [main]\ngpgcheck=1
	etc/yum.repos.d/azurelinux-official-base.repo = [azurelinux-official-base]\nname=Base\nbaseurl=$URL/azurelinux3.0/\ngpgkey=file:///$KEY
`

// azure is Azure Linux 3. Its base does not name Microsoft's repository with NVIDIA's packages, so
// the row of the matrix does.
func azure(w *World) *RPMSystem {
	s := w.newRPMSystem("azurelinux3.0", "sqlite", ".azl3", azureFiles)
	s.Row = fmt.Sprintf(
		"    kernels: [6.12]\n    repositories: [{baseurl: [%s/nvidia/], gpgkey: [/%s]}]\n", w.URL, RPMKey,
	)
	s.Packages = append(s.Packages, documented(perl)...)
	return s
}
