package kernel

import (
	"bytes"
	"fmt"
	"slices"
	"strings"

	"github.com/driver-container/driver-container/distros"
	"github.com/driver-container/driver-container/distros/bounded"
	"github.com/driver-container/driver-container/distros/failure"
	"github.com/driver-container/driver-container/images/matrix"
	"github.com/driver-container/driver-container/images/rootfs"
)

// Programs returns the target in a matrix whose repositories have the guest's own programs: the
// guest's system if they are known there, otherwise the newest release of Debian.
func Programs(m *matrix.Matrix, guest matrix.Target) (matrix.Target, error) {
	if distros.GuestPrograms(guest.Distro) != nil {
		return guest, nil
	}
	for _, system := range slices.Backward(m.Systems) {
		d, err := distros.Lookup(system.ID)
		if err != nil || distros.GuestPrograms(d) == nil {
			continue
		}
		return matrix.Target{System: system, Distro: d, Arch: guest.Arch}, nil
	}
	return matrix.Target{}, failure.Errorf(
		failure.Usage,
		"a rehearsal's guest needs busybox and runc of Debian's repositories, and the matrix has no "+
			"Debian that has both: add the system debian12, with your mirror in repositories, to matrix.yaml",
	)
}

const (
	busybox     = "usr/bin/busybox"
	maxBusybox  = 16 << 20 // bytes; Debian's has 2 MiB
	maxCommands = 1000     // Debian's has 270
)

// addCommands makes a link to busybox for each command that it has and that is not there.
func addCommands(tree *rootfs.Tree) error {
	program, err := bounded.FSFile(tree.OpenFS(), busybox, maxBusybox)
	if err != nil {
		return err
	}
	names, err := commands(program)
	if err != nil {
		return err
	}
	for _, name := range names {
		to := "usr/bin/" + name
		if tree.Exists(to) {
			continue
		}
		err = tree.AddLink(to, "busybox")
		if err != nil {
			return err
		}
	}
	return nil
}

// commands are the names of busybox's commands. It has them in one piece, sorted, each with a zero
// byte behind it (include/applet_tables.h), and it is not executed.
func commands(program []byte) (names []string, err error) {
	_, list, found := bytes.Cut(program, []byte("[\x00[[\x00"))
	for found && len(names) < maxCommands {
		name, rest, _ := bytes.Cut(list, []byte{0})
		last := ""
		if len(names) > 0 {
			last = names[len(names)-1]
		}
		if !isCommand(string(name)) || string(name) <= last {
			break
		}
		names = append(names, string(name))
		list = rest
	}
	for _, name := range []string{"insmod", "modprobe", "mount", "sh"} {
		if !slices.Contains(names, name) {
			return nil, failure.Errorf(failure.Content, "%s: its list of commands has no %s", busybox, name)
		}
	}
	return append(names, "[", "[["), nil
}

func isCommand(name string) bool {
	const letters = "abcdefghijklmnopqrstuvwxyz0123456789_.-"
	return name != "" && len(name) < 32 && strings.Trim(name, letters) == "" && name[0] != '.'
}

// checkPrograms says whether the disk has what the guest starts.
func checkPrograms(tree *rootfs.Tree) error {
	for _, name := range []string{busybox, "usr/bin/runc"} {
		if !tree.Exists(name) {
			return fmt.Errorf("the packages of the guest's programs have no /%s", name)
		}
	}
	return nil
}
