// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package model

import (
	_ "embed"
	"testing"
)

//go:embed identities.pml
var identitiesSource string

// identities is the model of the numbers that stand for label sets.
var identities = model{source: identitiesSource, run: []string{"-m1000000", "-w22"}}

func TestIdentities_TwoSets_NeverSameNumber(t *testing.T) {
	t.Parallel()
	identities.holds(t)
}

// TestIdentityModel_RuleBroken_ErrorFound breaks one rule of the protocol in each case. The last case
// shows that the complete protocol does give a number to another set.
func TestIdentityModel_RuleBroken_ErrorFound(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, assertion, define string }{
		{"a number is used again before the nodes have replied", "sent", "NO_CALL"},
		{"a node knows an identity that is being deleted", "sent", "KNOWS_DELETED"},
		{"an identity ends while its number is on the way to an Address", "mean", "NO_LIFE"},
		{"the model uses a number again for another set", "was", "NEVER_AGAIN"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			identities.fails(t, c.assertion, c.define)
		})
	}
}
