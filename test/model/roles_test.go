// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package model

import (
	_ "embed"
	"testing"
)

//go:embed roles.pml
var rolesSource string

// roles is the model of forwarding by bouncers and dividers.
var roles = model{source: rolesSource, run: []string{"-m1000000", "-w22"}}

func TestRoles_StaleTables_PacketArrives(t *testing.T) {
	t.Parallel()
	roles.holds(t)
}

// TestRoles_SenderIsBouncer_PacketArrives has the sender's node as a candidate.
func TestRoles_SenderIsBouncer_PacketArrives(t *testing.T) {
	t.Parallel()
	roles.holds(t, "SELF")
}

// TestRoles_LyingNode_DeletesOnlyOwnRows has a known node that sends packets of all classes, and an
// address that may move to the sender's own node.
func TestRoles_LyingNode_DeletesOnlyOwnRows(t *testing.T) {
	t.Parallel()
	roles.holds(t, "HOSTILE", "HOME")
}

// TestRoleModel_RuleBroken_ErrorFound breaks one rule of the protocol in each case.
func TestRoleModel_RuleBroken_ErrorFound(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, assertion string
		defines         []string
	}{
		{"the bound of four extra hops is exact", "sends<=4", []string{"SENDS=4"}},
		{"an incomplete member hands on to its equal", "sends<=5", []string{"FLAT"}},
		{"an incomplete member answers that there is no endpoint", "calm", []string{"ANSWERS_EARLY"}},
		{"a leaving member does not wait for the senders", "forged", []string{"STOPS_EARLY"}},
		{"a node delivers by the IP alone", "at==here", []string{"BY_IP"}},
		{"a returned packet leaves the row", "returns<=1", []string{"KEEPS_ROW"}},
		{"a returned packet deletes a row to another node", "from==cached", []string{"HOSTILE", "BELIEVES_ANYBODY"}},
		{"a returned packet of any node is sent on", "forged", []string{"HOSTILE", "REFLECTS"}},
		{"a returned packet is delivered", "forged", []string{"HOSTILE", "HOME", "DELIVERS_RETURNED"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			roles.fails(t, c.assertion, c.defines...)
		})
	}
}
