// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package policies converts network policies of all kinds to rows (docs/design/165). The rows
// have one form, so the differences between the kinds end here.
//
// A part of an object that can't be enforced never allows anything: a rule that accepts matches
// nothing then, and a rule that denies or passes denies everything, as network-policy-api asks.
package policies

import (
	"fmt"
	"net/netip"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/alioth-net/alioth/api/quote"
	"github.com/alioth-net/alioth/store/rows/policy"
)

// lastPort is the highest port.
const lastPort = 65535

var operators = map[metav1.LabelSelectorOperator]policy.Operator{
	metav1.LabelSelectorOpIn: policy.In, metav1.LabelSelectorOpNotIn: policy.NotIn,
	metav1.LabelSelectorOpExists: policy.Exists, metav1.LabelSelectorOpDoesNotExist: policy.DoesNotExist,
}

// selector converts a selector; an empty one selects everything.
func selector(in *metav1.LabelSelector) (policy.Selector, error) {
	if _, err := metav1.LabelSelectorAsSelector(in); err != nil {
		return nil, fmt.Errorf("read selector: %w", quote.Error(err))
	}
	var out policy.Selector
	for key, value := range in.MatchLabels {
		out = append(out, policy.Requirement{Key: key, Operator: policy.In, Values: []string{value}})
	}
	for _, one := range in.MatchExpressions {
		out = append(out, policy.Requirement{Key: one.Key, Operator: operators[one.Operator], Values: one.Values})
	}
	return sorted(out), nil
}

// prefix converts a range of addresses.
func prefix(text string) (netip.Prefix, error) {
	p, err := netip.ParsePrefix(text)
	if err != nil || p.Addr().Is4In6() {
		return netip.Prefix{}, fmt.Errorf("CIDR %s can't be read", quote.Text(text))
	}
	return p.Masked(), nil
}

// ports returns the range from first to last. It fails if no port is in it.
func ports(protocol string, first, last int32) (policy.Ports, error) {
	if first < 1 || last > lastPort || first > last {
		return policy.Ports{}, fmt.Errorf("there are no ports from %d to %d", first, last)
	}
	return policy.Ports{Protocol: protocol, First: uint16(first), Last: uint16(last)}, nil
}
