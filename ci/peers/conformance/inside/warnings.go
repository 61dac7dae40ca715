package inside

import (
	"bufio"
	"bytes"
	"slices"
	"strconv"
	"strings"
)

// expected are the warnings that NVIDIA's programs print on a machine where nothing is wrong, as beginnings
// of the message, each with the reason. Every other warning counts as a problem, so that a file that is
// missing in an image is noticed.
var expected = []struct{ start, why string }{
	{"Ignoring error in locating libnvidia-sandboxutils.so.1", "part of the driver since 555"},
	{"Failed to init nvsandboxutils", "as above"},
	{"Could not determine driver version: libnvsandboxutils", "no module is loaded; the version comes from the file names"},
	{"Missing libnvidia-nvvm70.so.*", "part of drivers before 525"},
	{"Could not locate nvidia-imex", "belongs to the package for NVLink systems"},
	{"Could not locate /dev/nvidia-caps", "made when MIG is on"},
	{"Could not locate /nvidia-persistenced/socket", "there while nvidia-persistenced runs"},
	{"Could not locate /nvidia-fabricmanager/socket", "there on NVSwitch systems"},
	{"Could not locate /tmp/nvidia-mps", "there while MPS runs"},
	{"Failed to evaluate symlink ", "those of /dev/dri: made by nvidia-drm, which is not loaded unless asked for"},
}

// optional are files of packages that a driver image may leave out: warnings about them are in the report,
// but are no problem.
var optional = []struct{ start, why string }{
	{"Could not locate libnvidia-egl-", "packages of their own: egl-gbm, egl-wayland, egl-xcb, egl-xlib"},
	{"Could not locate egl/egl_external_platform.d/", "as above"},
	{"Could not locate nvidia_drv.so", "the X server's driver"},
	{"Could not locate libglxserver_nvidia.so", "the X server's extension"},
	{"Could not locate X11/xorg.conf.d/", "as above"},
	{"Could not locate nvidia-xconfig", "as above"},
	{"Could not locate vulkan/", "one of several names, of which a distribution has one or two"},
	{"Could not locate glvnd/", "graphics is not in every profile"},
	{"Could not locate OpenCL/vendors/nvidia.icd", "OpenCL is not in every profile"},
	{"Could not locate nvidia/nvoptix.bin", "part of the driver since 525, of ray tracing"},
	{"Could not locate nvidia/", "firmware: drivers before 470 have none; Expect knows which files there are"},
}

// Warnings takes the warnings and errors out of a log in logrus' text format, each message once, in order.
func Warnings(log []byte) []string {
	var all []string
	lines := bufio.NewScanner(bytes.NewReader(log))
	lines.Buffer(nil, 1<<20) // a longer line ends the reading: no program prints one
	for lines.Scan() {
		_, rest, ok := strings.Cut(lines.Text(), "level=")
		if !ok {
			continue
		}
		level, rest, _ := strings.Cut(rest, " ")
		if level != "warning" && level != "error" && level != "fatal" {
			continue
		}
		_, text, ok := strings.Cut(rest, "msg=")
		if !ok {
			continue
		}
		if quoted, err := strconv.QuotedPrefix(text); err == nil {
			if text, err = strconv.Unquote(quoted); err != nil {
				continue
			}
		}
		if !slices.Contains(all, text) {
			all = append(all, text)
		}
	}
	return all
}

// judge turns warnings that are in neither list into problems.
func (c *Client) judge() {
	known := func(w string) bool {
		for _, e := range expected {
			if strings.HasPrefix(w, e.start) {
				return true
			}
		}
		for _, o := range optional {
			if strings.HasPrefix(w, o.start) {
				return true
			}
		}
		return false
	}
	const most = 8 // problems per run: a root without ld.so.cache gives one for each library
	unknown := 0
	for _, w := range c.Warnings {
		if known(w) {
			continue
		}
		if unknown++; unknown <= most {
			c.problem("it warns: %s", strings.ReplaceAll(w, "\n", "; "))
		}
	}
	if unknown > most {
		c.problem("and %d warnings more", unknown-most)
	}
}
