// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package v1beta1

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"

	nmstatev1 "github.com/alioth-net/alioth/api/nmstate/v1"
)

// HandlerVersion is what objects have as the version of their handler.
const HandlerVersion = "alioth.dev/v1"

// netconf is the suffix of the enactments of NodeNetConfPolicies: a policy of the other kind
// may have the same name.
const netconf = ".netconf"

// EnactmentName returns the name of the enactment of a policy of a kind on a node.
func EnactmentName(node, kind, policy string) string { return node + ending(kind, policy) }

// NodeOfEnactment returns the node of the enactment of a policy; false if the name is not
// that of an enactment of the policy.
func NodeOfEnactment(name, kind, policy string) (string, bool) {
	node, ok := strings.CutSuffix(name, ending(kind, policy))
	return node, ok && node != ""
}

func ending(kind, policy string) string {
	if kind == nmstatev1.NodeNetConfPolicyKind {
		return "." + policy + netconf
	}
	return "." + policy
}

// maxLabel is the longest value of a label, in bytes (Kubernetes, "Labels and Selectors").
const maxLabel = 63

// LabelValue returns the value by which a label selects the objects of a node or policy: its
// name, and for one that is too long its begin with a hash.
func LabelValue(name string) string {
	if len(name) <= maxLabel {
		return name
	}
	sum := sha256.Sum256([]byte(name))
	hash := hex.EncodeToString(sum[:8])
	return strings.TrimRight(name[:maxLabel-len(hash)-1], "-.") + "-" + hash
}
