package repoconf

import (
	"fmt"
	"io/fs"
	"path"
	"strings"
)

// ModuleState is the base's configuration of modules.
type ModuleState struct {
	Streams  map[string]string // enabled stream by module; "" where the module is disabled
	Platform string            // "el8"; "" if the base does not name it
}

// ReadModuleState reads the base's configuration of modules: etc/dnf/modules.d (which streams are enabled or
// disabled), and the platform from os-release.
func ReadModuleState(root fs.FS) (ModuleState, error) {
	s := ModuleState{Streams: map[string]string{}}
	if root == nil {
		return s, nil
	}
	err := EachFile(root, "etc/dnf/modules.d", ".module", func(name string, data []byte) error {
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
		return s, err
	}
	for _, name := range []string{"etc/os-release", "usr/lib/os-release"} {
		data, err := ReadOptional(root, name)
		if err != nil {
			return s, fmt.Errorf("read the platform of modules: %w", err)
		}
		if _, platform, ok := strings.Cut(osReleaseField(data, "PLATFORM_ID"), ":"); ok {
			s.Platform = platform
			break
		}
	}
	return s, nil
}

// EachFile passes the files of a configuration folder with an ending to do.
func EachFile(root fs.FS, dir, ending string, do func(name string, data []byte) error) error {
	names, err := ListFiles(root, dir)
	if err != nil {
		return fmt.Errorf("read %s: %w", dir, err)
	}
	for _, name := range names {
		if path.Ext(name) != ending {
			continue
		}
		name = path.Join(dir, name)
		data, err := ReadFile(root, name, maxConfig)
		if err == nil {
			err = do(name, data)
		}
		if err != nil {
			return fmt.Errorf("read %s: %w", dir, err)
		}
	}
	return nil
}
