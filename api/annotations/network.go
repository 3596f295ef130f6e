// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package annotations

// ModeKey is an annotation of a DanmNet, TenantNetwork or ClusterNetwork of type macvlan:
// the mode of its interfaces (ip-link(8), "MACVLAN and MACVTAP Type Support"). The kinds of
// DANM have no field for it.
const ModeKey = "alioth.dev/macvlan-mode"

// Modes of macvlan interfaces.
const (
	ModeBridge  = "bridge"
	ModePrivate = "private"
	ModeVEPA    = "vepa"
	// ModePassthru takes the parent device for one interface alone.
	ModePassthru = "passthru"
)

// Modes lists the modes of macvlan interfaces, the default first.
var Modes = []string{ModeBridge, ModePrivate, ModeVEPA, ModePassthru}
