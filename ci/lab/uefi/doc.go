// Package uefi writes Secure Boot's variables into the variable store of OVMF, the firmware of QEMU's machines, and reads them again,
// and makes keys and certificates for tests. It knows one format: EDK II's authenticated variable store in a firmware volume
// (MdeModulePkg/Include/Guid/VariableFormat.h), as OVMF_VARS_4M.fd has it. It appends to a store; a variable that is there is
// not changed. Nothing that it writes is signed: firmware asks for signatures of changes that are made through it, not of its flash.
package uefi
