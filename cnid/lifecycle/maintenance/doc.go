// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package maintenance maintains attachments without a call of the container runtime, in parallel
// to the passes: it rebuilds lost records of the journal, restores deleted interfaces, changes
// the MTU of running pods with the MTU of the node's network, and removes attachments whose
// sandbox is gone.
package maintenance
