import "reflect-metadata";
import { Controller, Get, Module, Req } from "@nestjs/common";
import { NestFactory } from "@nestjs/core";
import { ApiKeyModule, NoApiKey, type NestRequest, RequireApiKey, verifiedKey } from "keystile/nest";
import { apiId, tell, verifier } from "./keys.js";

@Controller()
class DocumentsController {
  @Get("documents")
  @RequireApiKey({ permissions: "documents.read" })
  list(@Req() request: NestRequest) {
    return { documents: [], keyId: verifiedKey(request).keyId };
  }

  @Get("health")
  @NoApiKey()
  health() {
    return "fine";
  }
}

@Module({ imports: [ApiKeyModule.forRoot(verifier, { apiId })], controllers: [DocumentsController] })
class AppModule {}

const app = await NestFactory.create(AppModule, { logger: false });
await app.listen(Number(process.env["PORT"] ?? 0), "127.0.0.1");
tell(`${await app.getUrl()}/documents`);
