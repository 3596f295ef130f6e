// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package multinet_test

import (
	"testing"

	"github.com/alioth-net/alioth/store"
	"github.com/alioth-net/alioth/store/rows/multinet"
)

// TestClaim_NetworkOfOtherNamespace_Refused: the writer of the claim makes no difference.
func TestClaim_NetworkOfOtherNamespace_Refused(t *testing.T) {
	for _, c := range []struct {
		network store.NetworkRef
		fine    bool
	}{
		{store.NetworkRef{Kind: multinet.KindDanmNet, Namespace: "mine", Name: "n"}, true},
		{store.NetworkRef{Kind: multinet.KindDanmNet, Namespace: "theirs", Name: "n"}, false},
		{store.NetworkRef{Kind: multinet.KindTenantNetwork, Namespace: "theirs", Name: "n"}, false},
		{store.NetworkRef{Kind: multinet.KindTenantNetwork, Name: "n"}, false},
		{store.NetworkRef{Kind: multinet.KindClusterNetwork, Name: "n"}, true},
		{store.NetworkRef{Kind: multinet.KindDefinition, Namespace: "tools", Name: "n"}, true},
	} {
		claim := multinet.Claim{Namespace: "mine", Name: "c", Network: c.network}
		if err := claim.Check(); (err == nil) != c.fine {
			t.Errorf("a claim for %+v: got %v", c.network, err)
		}
	}
}
