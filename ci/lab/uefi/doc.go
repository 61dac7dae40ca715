// Package uefi writes Secure Boot's variables into the variable store of OVMF, the firmware of QEMU's
// machines, and reads them again. It also makes keys and certificates for tests. It knows one format: EDK
// II's authenticated variable store in a firmware volume (MdeModulePkg/Include/Guid/VariableFormat.h), as in
// OVMF_VARS_4M.fd. It appends to a store and does not change existing variables. Nothing that it writes is
// signed: firmware requires signatures only for changes that are made through it, not for changes of its
// flash.
package uefi
