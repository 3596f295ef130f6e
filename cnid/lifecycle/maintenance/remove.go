// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package maintenance

import (
	"context"
	"log/slog"
	"time"

	"github.com/alioth-net/alioth/cnid/system/periodic"
)

// RemoveDead removes attachments whose sandbox is gone, at this interval until ctx ends.
// reconcile is the method of attachment.Manager.
func RemoveDead(ctx context.Context, every time.Duration, reconcile func(context.Context) error, log *slog.Logger) {
	periodic.Run(ctx, every, nil, func() {
		if err := reconcile(ctx); err != nil && ctx.Err() == nil {
			log.Warn("can't remove every attachment that is left over; trying again", "error", err)
		}
	})
}

// leftOverWait limits how long the start of the daemon waits for CNI plugins that hang.
const leftOverWait = 15 * time.Second

// RemoveLeftOver removes the remains of an earlier daemon's attachments. It returns earlier if
// ctx ends, or if CNI plugins hang: their attachments are leaving, and no pass over the node has
// them. RemoveDead tries again to remove the rest. The channel is closed once the last removal
// has ended.
func RemoveLeftOver(ctx context.Context, reconcile func(context.Context) error, log *slog.Logger) <-chan struct{} {
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		if err := reconcile(ctx); err != nil {
			log.Warn("can't remove every attachment that is left over", "error", err)
		}
	}()
	select {
	case <-ended:
	case <-ctx.Done():
	case <-time.After(leftOverWait):
		log.Warn("removing attachments that are left over takes long; the daemon starts meanwhile", "waited", leftOverWait)
	}
	return ended
}
