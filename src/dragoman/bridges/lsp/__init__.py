"""Any agent in any editor that speaks LSP: `dragoman lsp --agent NAME` is a language server."""
