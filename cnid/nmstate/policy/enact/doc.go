// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package enact decides what becomes of policies: on one node (Node), and over all nodes of
// a policy (Rollout). It is pure: what it returns is written by package
// cnid/nmstate/policy/policyhandler.
package enact
