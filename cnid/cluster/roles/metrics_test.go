// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package roles

import (
	"os"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/alioth-net/alioth/cnid/forward/plan"
	"github.com/alioth-net/alioth/store"
	"github.com/alioth-net/alioth/store/rows/roles"
)

// TestRoleMetrics_IncompleteTables_Counted: one incomplete table of several makes a role
// incomplete.
func TestRoleMetrics_IncompleteTables_Counted(t *testing.T) {
	rows, err := store.New()
	if err != nil {
		t.Fatal(err)
	}
	put := func(name, vpc, subnet, nodeUID string) {
		t.Helper()
		err := rows.Update(func(tx store.Tx) error {
			return roles.PutMember(
				tx,
				&roles.Member{Meta: store.Meta{UID: name}, Name: name, VPC: vpc, VPCUID: vpc, Subnet: subnet, SubnetUID: subnet, Node: "n", NodeUID: nodeUID},
			)
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := rows.Update(func(tx store.Tx) error {
		return store.PutNode(tx, &store.Node{Meta: store.Meta{UID: "n-uid"}, Name: "n"})
	}); err != nil {
		t.Fatal(err)
	}
	put("divides-blue", "blue", "", "n-uid")
	put("bounces-a", "blue", "a", "n-uid")
	put("bounces-b", "blue", "b", "n-uid")
	put("divides-red", "red", "", "n-uid")
	put("of-another-node", "green", "", "another")
	var p passes
	p.pass(plan.Roles{Complete: map[string]bool{"divides-blue": true, "bounces-a": true}})
	const want = `# HELP alioth_role_complete Roles of the node, 1 if all tables of the role in the VPC are programmed completely, otherwise 0.
# TYPE alioth_role_complete gauge
alioth_role_complete{role="bouncer",vpc="blue"} 0
alioth_role_complete{role="divider",vpc="blue"} 1
alioth_role_complete{role="divider",vpc="red"} 0
`
	if err := testutil.CollectAndCompare(NewCollector("n", rows, p.programmed), strings.NewReader(want)); err != nil {
		t.Error(err)
	}
	docs, err := os.ReadFile("../../../docs/reference/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{"`alioth_role_complete` | role, vpc |", "`bouncer`", "`divider`"} {
		if !strings.Contains(string(docs), text) {
			t.Errorf("docs/reference/metrics.md lacks %s", text)
		}
	}
}
