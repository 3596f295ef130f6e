// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package model

import (
	_ "embed"
	"testing"
)

//go:embed claims.pml
var claimsSource string

// claims is the model of the claim protocol. Its four million states need 420 MiB;
// compressed they need 270, and half as much time again.
var claims = model{source: claimsSource, run: []string{"-m1000000", "-w23"}}

func TestClaims_TwoSandboxes_NeverSameAddress(t *testing.T) { claims.holds(t) }

// TestClaimModel_SecondLookRemoved_ErrorFound leaves out the second look of an ADD. Without this
// look the model once found that a release overtakes the ADD.
func TestClaimModel_SecondLookRemoved_ErrorFound(t *testing.T) { claims.fails(t, "", "NO_SECOND_LOOK") }

// TestClaims_ThiefWithToken_NothingChanged has a thief make and delete Addresses for pods that are
// not on the node of the token.
func TestClaims_ThiefWithToken_NothingChanged(t *testing.T) { claims.holds(t, "THIEF") }

// TestClaimModel_TokenBelieved_ErrorFound: the operator went by the Address that a daemon asserted
// for any pod.
func TestClaimModel_TokenBelieved_ErrorFound(t *testing.T) {
	claims.fails(t, "", "THIEF", "TRUST_TOKENS")
}

// TestClaims_ForgedStatus_GivesNothing has a tenant write the status of its pod.
func TestClaims_ForgedStatus_GivesNothing(t *testing.T) { claims.holds(t, "FORGER") }

// TestClaimModel_StatusBelieved_ErrorFound: the operator claimed again the addresses that the
// status of a pod named.
func TestClaimModel_StatusBelieved_ErrorFound(t *testing.T) {
	claims.fails(t, "", "FORGER", "TRUST_STATUS")
}
