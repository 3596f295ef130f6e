// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package maintenance

import (
	"context"
	"log/slog"
	"time"

	"github.com/alioth-net/alioth/cnid/periodic"
)

// RemoveDead removes attachments whose sandbox is gone, at this interval until ctx ends.
// reconcile is that of attachment.Manager.
func RemoveDead(ctx context.Context, every time.Duration, reconcile func(context.Context) error, log *slog.Logger) {
	periodic.Run(ctx, every, nil, func() {
		if err := reconcile(ctx); err != nil && ctx.Err() == nil {
			log.Warn("can't remove every attachment that is left over; trying again", "error", err)
		}
	})
}
