// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package v1beta1

import (
	"crypto/sha256"
	"encoding/hex"
	"regexp"
	"strconv"
	"strings"

	nmstatev1 "github.com/alioth-net/alioth/api/nmstate/v1"
)

// HandlerVersion is the version of the handler in objects.
const HandlerVersion = "alioth.dev/v1"

// maxName is the longest name of an object, in bytes (Kubernetes, "Object Names and IDs").
const maxName = 253

// netconf is the ending of the enactments of NodeNetConfPolicies: a policy of the other kind
// may have the same name.
const netconf = "netconf"

// reserved matches a last part that marks a name as more than a node and a policy without a
// dot. The chart's admission policies have the same expression.
var reserved = regexp.MustCompile(`^(netconf|(netconf-)?parts-[1-9][0-9]*|sha256-[0-9a-f]{64})$`)

// EnactmentName returns the name of the enactment of a policy of a kind on a node. Two
// enactments never have the same name: it begins with the whole name of the node, and its last
// part tells where that ends (docs/design/122). Only for a node whose name has more than 181
// bytes it may be longer than the API server permits.
func EnactmentName(node, kind, policy string) string {
	name := node + ending(kind, policy)
	if len(name) <= maxName {
		return name
	}
	return node + hashed(kind, policy)
}

// NodeOfEnactment returns the node of an enactment, and false if no enactment of the policy
// has the name. The function accepts names of earlier versions too.
func NodeOfEnactment(name, kind, policy string) (string, bool) {
	for _, end := range []string{ending(kind, policy), hashed(kind, policy), early(kind, policy)} {
		if node, ok := strings.CutSuffix(name, end); ok && node != "" {
			return node, true
		}
	}
	return "", false
}

// ending returns the part of an enactment name after the name of the node.
func ending(kind, policy string) string {
	number := strings.Count(policy, ".") + 1
	parts := "parts-" + strconv.Itoa(number)
	switch {
	case kind == nmstatev1.NodeNetConfPolicyKind && number == 1:
		return "." + policy + "." + netconf
	case kind == nmstatev1.NodeNetConfPolicyKind:
		return "." + policy + "." + netconf + "-" + parts
	case number == 1 && !reserved.MatchString(policy):
		return "." + policy
	default:
		return "." + policy + "." + parts
	}
}

// hashed is the ending of names that are too long otherwise.
func hashed(kind, policy string) string {
	sum := sha256.Sum256([]byte(kind + "/" + policy))
	return ".sha256-" + hex.EncodeToString(sum[:])
}

// early is the ending that earlier versions gave to the name. Policies with a dot in their
// name could then have one name on two nodes.
func early(kind, policy string) string {
	if kind == nmstatev1.NodeNetConfPolicyKind {
		return "." + policy + "." + netconf
	}
	return "." + policy
}

// maxLabel is the longest value of a label, in bytes (Kubernetes, "Labels and Selectors").
const maxLabel = 63

// LabelValue returns the label value that selects the objects of a node or policy: its name, or
// the beginning of a name that is too long, with a hash.
func LabelValue(name string) string {
	if len(name) <= maxLabel {
		return name
	}
	sum := sha256.Sum256([]byte(name))
	hash := hex.EncodeToString(sum[:8])
	return strings.TrimRight(name[:maxLabel-len(hash)-1], "-.") + "-" + hash
}
