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

func TestNoTwoSandboxesAreEverGivenOneAddress(t *testing.T) { claims.holds(t) }

// TestTheModelFindsWhatItIsThereToFind leaves out the second look of an ADD. Without this look the
// model once found that a release overtakes the ADD.
func TestTheModelFindsWhatItIsThereToFind(t *testing.T) { claims.fails(t, "", "NO_SECOND_LOOK") }

// TestATokenOfAnotherNodeChangesNothing has a thief make and delete Addresses for pods
// that are not on the node of the token.
func TestATokenOfAnotherNodeChangesNothing(t *testing.T) { claims.holds(t, "THIEF") }

// TestTheModelFindsWhatATokenDidThatWasBelieved: the operator went by the Address that a
// daemon asserted for any pod.
func TestTheModelFindsWhatATokenDidThatWasBelieved(t *testing.T) {
	claims.fails(t, "", "THIEF", "TRUST_TOKENS")
}

// TestAForgedStatusGivesNothing has a tenant write the status of its pod.
func TestAForgedStatusGivesNothing(t *testing.T) { claims.holds(t, "FORGER") }

// TestTheModelFindsWhatAStatusDidThatWasBelieved: the operator claimed again the addresses that the
// status of a pod named.
func TestTheModelFindsWhatAStatusDidThatWasBelieved(t *testing.T) {
	claims.fails(t, "", "FORGER", "TRUST_STATUS")
}
