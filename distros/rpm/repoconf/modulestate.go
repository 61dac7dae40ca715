package repoconf

import (
	"fmt"
	"io/fs"
	"strings"

	"github.com/driver-container/driver-container/distros/confdir"
)

// ModuleState is the base's configuration of modules.
type ModuleState struct {
	Streams  map[string]string // enabled stream by module; "" where the module is disabled
	Platform string            // "el8"; "" if the base does not name it
}

// ReadModuleState reads the base's configuration of modules: etc/dnf/modules.d (which streams are
// enabled or disabled), and the platform from os-release.
func ReadModuleState(root fs.FS) (ModuleState, error) {
	s := ModuleState{Streams: map[string]string{}}
	err := confdir.Each(root, "etc/dnf/modules.d", ".module", func(name string, data []byte) error {
		sections, err := parseINI(name, data)
		if err != nil {
			return err
		}
		for _, sec := range sections {
			switch strings.ToLower(sec.values["state"]) {
			case "enabled", "1", "true":
				s.Streams[sec.name] = sec.values["stream"]
			case "disabled":
				s.Streams[sec.name] = ""
			}
		}
		return nil
	})
	if err != nil {
		return s, fmt.Errorf("read the state of modules: %w", err)
	}
	id, err := osReleaseField(root, "PLATFORM_ID")
	_, s.Platform, _ = strings.Cut(id, ":")
	return s, err
}
