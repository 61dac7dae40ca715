package rpmfile

import (
	"encoding/binary"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// capabilityNames are the names of Linux's capabilities, in the order of their numbers
// (linux/capability.h).
var capabilityNames = strings.Fields(
	`chown dac_override dac_read_search fowner fsetid kill setgid setuid setpcap linux_immutable
	net_bind_service net_broadcast net_admin net_raw ipc_lock ipc_owner sys_module sys_rawio sys_chroot sys_ptrace sys_pacct
	sys_admin sys_boot sys_nice sys_resource sys_time sys_tty_config mknod lease audit_write audit_control setfcap mac_override
	mac_admin syslog wake_alarm block_suspend audit_read perfmon bpf checkpoint_restore`,
)

// capabilityXattr converts the text of a header, which has the format of cap_to_text(3)
// ("cap_net_admin,cap_net_raw=ep"), to the value of the extended attribute security.capability
// (revision 2, linux/capability.h). It returns nil if there are no capabilities.
func capabilityXattr(text string) ([]byte, error) {
	var permitted, inheritable, effective uint64
	for clause := range strings.FieldsSeq(text) {
		at := strings.IndexAny(clause, "=+-")
		if at < 0 {
			return nil, malformed("capabilities %.80q: no = + or - in %.80q", text, clause)
		}
		set, err := capabilitySet(clause[:at])
		if err != nil {
			return nil, malformed("capabilities %.80q: %w", text, err)
		}
		for rest := clause[at:]; rest != ""; {
			end := 1
			for end < len(rest) && strings.IndexByte("eip", rest[end]) >= 0 {
				end++
			}
			if end < len(rest) && strings.IndexByte("=+-", rest[end]) < 0 {
				return nil, malformed("capabilities %.80q: %q is not one of e, i and p", text, rest[end])
			}
			for flag, to := range map[string]*uint64{"e": &effective, "i": &inheritable, "p": &permitted} {
				named := strings.Contains(rest[1:end], flag)
				if rest[0] == '=' || rest[0] == '-' && named {
					*to &^= set
				}
				if rest[0] != '-' && named {
					*to |= set
				}
			}
			rest = rest[end:]
		}
	}
	if permitted|inheritable|effective == 0 {
		return nil, nil
	}
	word := uint32(2 << 24)
	if effective != 0 { // files have one effective bit for all capabilities
		word |= 1
		if effective != permitted|inheritable {
			return nil, malformed("capabilities %.80q: some, but not all, are effective: files cannot have that", text)
		}
	}
	var out []byte
	for _, w := range []uint32{word, uint32(permitted), uint32(inheritable), uint32(permitted >> 32), uint32(inheritable >> 32)} {
		out = binary.LittleEndian.AppendUint32(out, w)
	}
	return out, nil
}

// capabilitySet reads the list before the operator; an empty list means all capabilities.
func capabilitySet(list string) (uint64, error) {
	if list == "" || list == "all" {
		return 1<<len(capabilityNames) - 1, nil
	}
	var set uint64
	for name := range strings.SplitSeq(list, ",") {
		short := strings.TrimPrefix(strings.ToLower(name), "cap_")
		n := slices.Index(capabilityNames, short)
		if n < 0 { // newer than the names above: libcap writes its number
			number, err := strconv.ParseUint(short, 10, 6)
			if err != nil {
				return 0, fmt.Errorf("unknown capability %.40q", name)
			}
			n = int(number)
		}
		set |= 1 << n
	}
	return set, nil
}
