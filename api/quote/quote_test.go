// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package quote_test

import (
	"errors"
	"log/slog"
	"strconv"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/alioth-net/alioth/api/quote"
)

func TestQuote_AnyText_QuotedAndCut(t *testing.T) {
	for text, want := range map[string]string{
		"":                             `""`,
		"net-1":                        `"net-1"`,
		"a\nlevel=ERROR":               `"a\nlevel=ERROR"`,
		"\x1b[31mred":                  `"\x1b[31mred"`,
		"\xff\xfe":                     `"\xff\xfe"`,
		"\u202e":                       `"\u202e"`,
		strings.Repeat("x", 256):       `"` + strings.Repeat("x", 256) + `"`,
		strings.Repeat("x", 257):       `"` + strings.Repeat("x", 256) + `"...`,
		strings.Repeat("ä", 129):       `"` + strings.Repeat("ä", 128) + `"...`,
		"x" + strings.Repeat("ä", 129): `"x` + strings.Repeat("ä", 127) + `"...`,
	} {
		if got := quote.Text(text); got != want {
			t.Errorf("%.20q is quoted as %s, want %s", text, got, want)
		}
	}
}

func TestName_NotName_Quoted(t *testing.T) {
	for text, want := range map[string]string{
		"net-1": "net-1", "": `""`, "a b": `"a b"`, "a\nb": `"a\nb"`, `"`: `"\""`, "ä": `"ä"`,
		strings.Repeat("x", 257): `"` + strings.Repeat("x", 256) + `"...`,
	} {
		if got := quote.Name(text); got != want {
			t.Errorf("%.20q is named %s, want %s", text, got, want)
		}
	}
	if got := quote.Names([]string{"a", "b c", strings.Repeat("x", 250), "d"}); got != `a, "b c", ...` {
		t.Errorf("a list is %s", got)
	}
}

func TestError_LongParserError_Cut(t *testing.T) {
	whole := &strconv.NumError{Func: "ParseInt", Num: strings.Repeat("x", 1000), Err: strconv.ErrSyntax}
	var found *strconv.NumError
	if err := quote.Error(whole); len(err.Error()) > quote.MaxQuoted || !errors.As(err, &found) || found != whole {
		t.Errorf("it has %d bytes: %v", len(err.Error()), err)
	}
	if quote.Error(nil) != nil || !errors.Is(quote.Error(strconv.ErrSyntax), strconv.ErrSyntax) {
		t.Error("no error, or a short one, is not the same")
	}
}

func TestMessage_AnyText_OnePrintableLine(t *testing.T) {
	for text, want := range map[string]string{
		"plain: ä, 日本":           "plain: ä, 日本",
		"two\nlines\r\n":         "two lines  ",
		"\x1b[2J\x00\u202e\xff!": "?[2J???!",
		"a?b":                    "a?b",
	} {
		if got := quote.Message(text); got != want {
			t.Errorf("%q becomes %q, want %q", text, got, want)
		}
	}
}

func FuzzAMessageIsBounded(f *testing.F) {
	for _, text := range []string{"", "\n", strings.Repeat("\xff", 2000), strings.Repeat("日", 700), strings.Repeat("a", 1023) + "ä", strings.Repeat("\x1b", 4096)} {
		f.Add(text, quote.MaxMessage)
		f.Add(text, 16)
	}
	f.Fuzz(func(t *testing.T, text string, most int) {
		if most < 8 || most > 1<<16 {
			return
		}
		got := quote.Bounded(text, most)
		if len(got) > most || !utf8.ValidString(got) || strings.IndexFunc(got, func(r rune) bool { return !unicode.IsPrint(r) }) >= 0 {
			t.Errorf("%q becomes %q of %d bytes, at most %d", text, got, len(got), most)
		}
		if again := quote.Bounded(got, most); again != got {
			t.Errorf("%q becomes %q, and then %q", text, got, again)
		}
		quoted := quote.Text(text)
		if len(quoted) > 4*quote.MaxQuoted+5 || strings.IndexFunc(quoted, func(r rune) bool { return !unicode.IsPrint(r) }) >= 0 {
			t.Errorf("%q is quoted as %s", text, quoted)
		}
	})
}

func TestLogValue_HostileText_LineBounded(t *testing.T) {
	hostile := strings.Repeat("x", 256<<10) + "\nlevel=ERROR msg=forged \x1b[31m"
	for name, attr := range map[string]slog.Attr{"a text": slog.String("k", hostile), "an error": slog.Any("k", errors.New("\n"+hostile))} {
		var out strings.Builder
		log := slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{ReplaceAttr: quote.LogValue}))
		log.Info(hostile, attr)
		if got := out.String(); len(got) > 2*quote.MaxLogged+256 || strings.Count(got, "\n") != 1 || strings.Contains(got, "\x1b") {
			t.Errorf("%s: %d bytes are logged: %.200q", name, len(got), got)
		}
	}
}
