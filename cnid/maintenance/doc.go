// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package maintenance is what the daemon does with attachments without a call of the
// container runtime, beside the passes: it rebuilds records that the journal has lost,
// restores interfaces that were deleted, has running pods follow the MTU of the node's
// network, and removes attachments whose sandbox is gone.
package maintenance
