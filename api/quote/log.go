// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package quote

import "log/slog"

// MaxLogged is the longest text of one value in a log, in bytes.
const MaxLogged = 4096

// LogValue bounds a value of a log line, for slog.HandlerOptions: errors of the API server
// repeat texts of tenants. The handlers of slog escape line breaks themselves.
func LogValue(_ []string, attr slog.Attr) slog.Attr {
	switch value := attr.Value.Resolve(); {
	case value.Kind() == slog.KindString:
		return slog.String(attr.Key, Bounded(value.String(), MaxLogged))
	case value.Kind() == slog.KindAny:
		if err, ok := value.Any().(error); ok {
			return slog.String(attr.Key, Bounded(err.Error(), MaxLogged))
		}
	}
	return attr
}
