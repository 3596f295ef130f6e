// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"context"
	"fmt"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"github.com/alioth-net/alioth/api/nmstate/document"
	"github.com/alioth-net/alioth/cnid/nmstate/kernel/convert"
	"github.com/alioth-net/alioth/cnid/nmstate/plan"
)

// rules returns the routing rules of both families.
func (k *Kernel) rules(ctx context.Context) ([]document.RouteRule, error) {
	messages, err := k.dump(ctx, unix.RTM_GETRULE, nl.NewIfInfomsg(unix.AF_UNSPEC))
	if err != nil {
		return nil, fmt.Errorf("list rules: %w", err)
	}
	return convert.ReadRules(messages), nil
}

func (k *Kernel) addRule(ctx context.Context, step plan.AddRule) error {
	request, err := convert.RuleRequest(step.Rule)
	if err != nil {
		return err
	}
	// The kernel compares all that a rule has, so one that exists is the same.
	return unless(k.tell(ctx, unix.RTM_NEWRULE, unix.NLM_F_CREATE|unix.NLM_F_EXCL, request...), unix.EEXIST)
}

func (k *Kernel) removeRule(ctx context.Context, step plan.RemoveRule) error {
	request, err := convert.RuleRequest(step.Rule)
	if err != nil {
		return err
	}
	return unless(k.tell(ctx, unix.RTM_DELRULE, 0, request...), unix.ENOENT, unix.ESRCH)
}
