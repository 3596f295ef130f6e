// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package object

// Attributes of rules (include/uapi/linux/fib_rules.h).
const (
	rulePriority = 6  // FRA_PRIORITY
	RuleL3       = 19 // FRA_L3MDEV
)

// PriorityOf returns the priority of a rule.
func PriorityOf(m Message) uint32 { return Rules().Attributes(m).Value(rulePriority) }
