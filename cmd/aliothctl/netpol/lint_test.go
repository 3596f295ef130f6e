// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package netpol

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/alioth-net/alioth/cmd/aliothctl/netpol/judgement"
)

// shop has two workloads of a tenant's VPC, and a policy with three mistakes.
const shop = `
apiVersion: arktos.futurewei.com/v1
kind: Network
metadata: {namespace: shop, name: default}
spec: {type: vpc, vpcID: blue}
---
apiVersion: alioth.dev/v1alpha1
kind: VPC
metadata: {name: blue}
spec: {cidrs: [10.0.0.0/16]}
---
apiVersion: apps/v1
kind: Deployment
metadata: {namespace: shop, name: cart}
spec: {template: {metadata: {labels: {app: cart}}, spec: {containers: [{name: cart, image: cart}]}}}
---
apiVersion: apps/v1
kind: StatefulSet
metadata: {namespace: shop, name: db}
spec: {template: {metadata: {labels: {app: db}}, spec: {containers: [{name: db, image: db, ports: [{name: sql, containerPort: 5432}]}]}}}
---
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {namespace: shop, name: db}
spec:
  podSelector: {matchLabels: {app: db}}
  ingress:
    - from: [{podSelector: {matchLabels: {app: card}}}]
      ports: [{port: mysql}]
    - from: [{ipBlock: {cidr: 10.0.0.0/24}}]
---
apiVersion: policy.networking.k8s.io/v1alpha2
kind: ClusterNetworkPolicy
metadata: {name: all}
spec: {tier: Admin, priority: 1, subject: {namespaces: {}}}
`

func TestLint_Files_FindingsPrinted(t *testing.T) {
	out, err := ran(t, shop, "lint", "--offline", "-f", "-")
	if !IsFinding(err) {
		t.Error(err)
	}
	for _, want := range []string{
		"NetworkPolicy shop/db: spec.ingress[0]: NoPeerSelected: no pod in namespace shop has app=card (the values of app are: cart, db)",
		"NetworkPolicy shop/db: spec.ingress[0]: NoPortNamed: no pod that the policy selects has a port with the name mysql/TCP (they name sql/TCP)",
		"NetworkPolicy shop/db: spec.ingress[1]: RangeInVPC: 10.0.0.0/24 is within VPC blue (10.0.0.0/16)",
		"note: ClusterNetworkPolicy all is not reviewed: it may select pods that were not read",
		"policies: 1, findings: 3",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("the output lacks %q:\n%s", want, out)
		}
	}
	out, err = ran(t, shop, "lint", "--offline", "-f", "-", "-o", "json")
	var review judgement.Review
	if json.Unmarshal([]byte(out), &review) != nil || len(review.Findings) != 3 || !IsFinding(err) {
		t.Errorf("as JSON: %v\n%s", err, out)
	}
}

func TestLint_PolicyMendedOrUnreadable_StatusFollows(t *testing.T) {
	mended := strings.NewReplacer("app: card", "app: cart", "port: mysql", "port: sql", "cidr: 10.0.0.0/24", "cidr: 203.0.113.0/24").Replace(shop)
	if out, err := ran(t, mended, "lint", "--offline", "-f", "-"); err != nil || !strings.Contains(out, "policies: 1, findings: 0") {
		t.Errorf("mended: %v\n%s", err, out)
	}
	unreadable := strings.Replace(mended, "matchLabels: {app: db}", "matchExpressions: [{key: app, operator: Like}]", 1)
	if out, err := ran(t, unreadable, "lint", "--offline", "-f", "-"); err == nil || IsFinding(err) || !strings.Contains(out, "problem: NetworkPolicy shop/db") {
		t.Errorf("unreadable: %v\n%s", err, out)
	}
	other := strings.Replace(mended, "type: vpc", "type: flat", 1)
	if out, err := ran(t, other, "lint", "--offline", "-f", "-"); err != nil || !strings.Contains(out, "note: NetworkPolicy shop/db is not reviewed") {
		t.Errorf("with pods of another plugin: %v\n%s", err, out)
	}
	alone := mended[strings.Index(mended, "apiVersion: networking"):]
	if out, err := ran(t, alone, "lint", "--offline", "-f", "-"); err != nil || !strings.Contains(out, "policies: 0, findings: 0") {
		t.Errorf("without pods: %v\n%s", err, out)
	}
	if _, err := ran(t, "", "lint", "--offline", "-f", "-", "-n", "shop"); err == nil {
		t.Error("a namespace of a cluster and files were accepted together")
	}
}
