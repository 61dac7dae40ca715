package conformance

import (
	"fmt"
	"slices"
	"strings"
)

// Report is what the programs found in one driver root.
type Report struct {
	Root    string `json:"root"`    // the driver root that was examined, as the caller named it
	Version string `json:"version"` // the driver version that it should have
	// "/" or the driver root: where consumers look for dev (contract of the validator)
	DevRoot string   `json:"devRoot"`
	Clients []Client `json:"clients"` // in the order in which they ran
}

// Client is one program's run.
type Client struct {
	Name string `json:"name"`
	// exit status; -1 when it did not start or ran past its deadline
	Code     int       `json:"code"`
	Found    Inventory `json:"found"`
	Problems []string  `json:"problems,omitempty"` // what is wrong, in words for readers
	// the end of the program's output, when there are problems
	Output string `json:"output,omitempty"`
}

// Inventory is what a program would give to a container: base names, and paths of devices in the
// container.
type Inventory struct {
	Devices   []string `json:"devices,omitempty"`
	Libraries []string `json:"libraries,omitempty"` // *.so.VERSION
	// symbolic links that hooks make, "target::path"
	Links    []string `json:"links,omitempty"`
	Binaries []string `json:"binaries,omitempty"`
	Firmware []string `json:"firmware,omitempty"`
	Hooks    []string `json:"hooks,omitempty"` // names of nvidia-cdi-hook's commands
}

// Problems returns the problems of all clients, each after the client's name.
func (r Report) Problems() []string {
	var all []string
	for _, c := range r.Clients {
		for _, p := range c.Problems {
			all = append(all, c.Name+": "+p)
		}
	}
	return all
}

// Client returns the run of the client of that name.
func (r Report) Client(name string) (Client, bool) {
	i := slices.IndexFunc(r.Clients, func(c Client) bool { return c.Name == name })
	if i < 0 {
		return Client{}, false
	}
	return r.Clients[i], true
}

// String returns the report for a log: one line for each client and one for each problem.
func (r Report) String() string {
	var b strings.Builder
	fmt.Fprintf(
		&b,
		"driver root %s, driver %s, device nodes below %s\n",
		r.Root,
		r.Version,
		r.DevRoot,
	)
	for _, c := range r.Clients {
		f := c.Found
		fmt.Fprintf(
			&b,
			"%s: exit code %d; %d devices, %d libraries, %d links, %d binaries, %d firmware files\n",
			c.Name,
			c.Code,
			len(f.Devices),
			len(f.Libraries),
			len(f.Links),
			len(f.Binaries),
			len(f.Firmware),
		)
		for _, p := range c.Problems {
			fmt.Fprintf(&b, "  problem: %s\n", p)
		}
	}
	return b.String()
}

func (c *Client) problem(format string, args ...any) {
	c.Problems = append(c.Problems, fmt.Sprintf(format, args...))
}
